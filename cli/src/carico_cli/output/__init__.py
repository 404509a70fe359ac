"""How answers look.

- `formats`: text tables, names shortened in the middle, natural order; `-o json|wide`
- `words`: amounts, and paragraphs of 80 columns
- `report`: HTML pages and their folder; `charts`: SVG charts for them, and the files of --plot
"""
