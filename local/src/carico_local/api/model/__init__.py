"""Objects and their types. Imports no other package of the API.

objects    an object as it is stored: keys, versions, times
resources  the kinds that are served, those that are not, and the paths of both
schema     types of every field, from the official client, and decoding by them
patching   merge and strategic-merge patches
statuses   failures as metav1.Status
"""
