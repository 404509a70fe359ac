"""Engine: the scheduler at work.

- `engine`: takes in what the API and the bus report, decides, and reports.
- `starter`: starts the bind of each Pod that a cycle has placed.
- `held_room`: the room that a cycle leaves free.
- `parts`: what an engine is put together from.
"""
