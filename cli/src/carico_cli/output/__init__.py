"""How answers look.

- `formats`: text tables, names shortened in the middle, natural order; `-o json|wide`
- `report`: HTML pages and their folder; `charts`: SVG charts for them
"""
