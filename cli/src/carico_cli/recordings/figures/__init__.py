"""The dissertation's figures of one node, redrawn from the log that they were drawn from: numbers and charts.

- `figure`: the record of one
- `samples`: what the samples show, by the number of Pods (2.4, 2.5, 4.3, 4.4, 4.5); `phases`: when how many ran
- `signals`: the signal of a node while its peers work (4.6)
- `events`: how late the listeners are, and the estimates over bursts of Pods (4.8, 4.9)
"""

from collections.abc import Callable

from carico_cli.recordings import trace
from carico_cli.recordings.figures import events, figure, samples, signals

# By the number in the dissertation.
FIGURES: dict[str, Callable[[trace.Trace], figure.Figure]] = {
    "2.4": samples.pressure,
    "2.5": samples.averaged,
    "4.3": samples.utilisation,
    "4.4": samples.by_bursts,
    "4.5": samples.filtered,
    "4.6": signals.of_peers,
    "4.8": events.listeners,
    "4.9": events.estimates,
}
