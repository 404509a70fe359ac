"""The twin, recorded traces and the search of the rescheduler: no processes."""
