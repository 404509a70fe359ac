"""What a job did, from what was observed.

facts     what is kept of each Pod, capacity and decision
figures   job time, Pod times, fairness, accuracy of capacities (pure)
"""
