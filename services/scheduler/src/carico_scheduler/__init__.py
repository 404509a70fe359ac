"""CARICO scheduler: binds Pods by advertised capacity.

What is known, kept in step by events; pure:

- `state`: all of it. `api_collections` says what of the API goes where in it.
- `fleet`: the nodes, the one writer of their `columns`; `lately` keeps answers over them, `headroom` says how many Pods
  fit by what a node advertises.
- `reservations`: which Pods count on which node, as the claims of a ledger (no PersistentVolumeClaims).
- `facts`: what follows from nodes' names, labels and taints.
- `census`: which Pods are on which node, and how many of them a Pod's constraints mean; `repellers`: by whom a Pod may
  be kept away.
- `storage`: PersistentVolumeClaims and volumes; `volumes`: which nodes they allow.
- `queue`: the Pods that wait, in lanes of one `demand` each.

How it is decided; pure:

- `cycle`: from a `snapshot` of the fleet and the queue to placements, by a `policy`. Begin reading here.
- `stages`: a file for each filter and scorer. `masks`: which nodes pass those that go by facts alone.
- `board`: the scores of all nodes for one demand; `peer_board`: where other Pods, volumes or wishes bear on them.
- `explain`: decisions in words; `decisions`: as records.

At work:

- `engine`: takes in, decides, binds. `mirrors`: what the API says, and `silence`: since when it says nothing;
  `intake`: what nodes advertise.
- `binder`: binds Pods; `claims`: has their volumes bound before; `outcomes`: what came of it.
- `reporter`: why Pods wait, as records and `events`; `notices`: when they are due. `instruments`: metrics. `traces`: a
  Pod's way.
- `leadership`: who of several schedulers leads. `extender`: beside or inside kube-scheduler.
- `queries` and `answers`: what is asked on the bus.
- `app`: puts all this together, by `settings`, and stops it in order. `service`: connects it to the API and the bus;
  `main` runs that.
"""
