"""Objects by key and revision.

store      SQLite: objects, the revision, the latest changes
watch      watches, and the lines that each change produces
listing    pages of a list, at one revision
selectors  label and field selectors
"""
