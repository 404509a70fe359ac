"""What an object is. Imports no other package of the API.

objects    an object as it is kept: keys, versions, times
resources  the kinds that are served, those that are left out, and what a path names
schema     types of every field, from the official client, and decoding by them
patching   merge and strategic-merge patches
statuses   failures as metav1.Status
"""
