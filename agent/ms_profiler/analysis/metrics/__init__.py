"""Pure functions over tables; each states its formula."""
