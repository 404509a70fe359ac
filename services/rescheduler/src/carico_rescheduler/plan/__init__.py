"""Which moves pay, and in which order. Pure.

- `planning`: from the context to a plan.
- `generator`: the best placement found, as a curve: what each further move gains. `ordering`: the moves towards it,
  each with room for the old and the new Pod.
- `decision`: how much of the curve is worth it, and what of it the budget allows. `lasting`: whether it would have
  paid by the readings of the rounds before as well.
"""
