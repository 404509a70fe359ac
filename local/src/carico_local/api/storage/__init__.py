"""Objects by key and revision.

store      SQLite: objects, the revision, the latest changes
watch      who watches what, and the lines that each change is
listing    pages of a list, as of one revision
selectors  label and field selectors
"""
