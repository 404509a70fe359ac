"""Moves: carries out one move of a Pod, such that a crash at any moment leaves no Pod too many and none too few.

- `record`: one move from its start to its outcome, with its states.
- `surge`: a new replica on the target first, then the old one goes. `surge_steps`: what to do
  next, by what the API shows. `surge_pod`: the new replica as an object.
- `evict`: by the eviction API. `pin`: by the nodeSelector of the Deployment, as in the paper.
- `executor`: chooses among them, and finishes or undoes what an earlier process has left.
"""
