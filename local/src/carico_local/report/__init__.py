"""The report of a job, from what was observed.

facts     what is recorded of each Pod, capacity and decision
figures   job time, Pod times, fairness, accuracy of capacities (pure)
"""
