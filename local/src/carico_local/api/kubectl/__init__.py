"""What kubectl reads besides objects.

discovery        the kinds that are served, and those that are not
openapi          their fields, for `apply` and `explain`
representations  an object or a list as itself or as a table
tables           the columns and cells of `kubectl get`
"""
