"""report.html: one run, or two compared, as a page that needs no network and no server.

`content.py` selects the content, `packing.py` makes columns small, `document.py` puts data, styles and scripts
into one file. `static/` holds the styles and scripts; `static/vendor/` holds libraries of others with their licence and
checksum.
"""
