"""report.html: one run, or the comparison of two runs, as a page that needs no network and no server.

`content.py` selects the content, `packing.py` makes columns small, `document.py` puts data, styles and scripts
into one file. `static/` has the styles and scripts. `static/vendor/` has a library of others, with its licence and
checksum.
"""
