"""How results are shown: `tables` as text, `report` as files in a folder."""
