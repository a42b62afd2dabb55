"""One module per source of data; each fills the tables of `analysis.model.tables`."""
