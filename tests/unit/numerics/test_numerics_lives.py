"""Who is likely to end soon: few Pods are worked out with plain numbers, to the same bits as many are with arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import lives

SECONDS = st.floats(min_value=0.0, max_value=100.0)


@given(
    ended=st.lists(SECONDS, min_size=3, max_size=48),
    ages=st.lists(SECONDS, min_size=1, max_size=7),
    span=st.floats(min_value=1e-3, max_value=50.0),
    tied=st.booleans(),
)
def test_few_pods_give_what_many_would(ended: list[float], ages: list[float], span: float, tied: bool) -> None:
    if tied:
        ages = [ended[0], *ages[1:]]
    expected = float(lives._chances(np.array(sorted(ended)), np.array(ages), span).sum())
    assert lives._few_chances(sorted(ended), ages, span) == expected
