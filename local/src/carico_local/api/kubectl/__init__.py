"""What kubectl reads apart from objects.

discovery        which kinds there are, and which are left out
openapi          their fields, for `apply` and `explain`
representations  an object or a list as itself or as a table
tables           the columns and cells of `kubectl get`
"""
