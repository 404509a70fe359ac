"""How results are shown.

- `tables`: text tables, names shortened in the middle, natural order
- `formats`: `-o json|wide`
- `report`: the folder of a report, and its HTML page
- `charts`: charts of a page, as SVG by matplotlib
"""
