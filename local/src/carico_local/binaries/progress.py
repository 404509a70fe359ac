"""What is reported while tools are looked for and built."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One line. `passing`: of interest only until the next one, so that a terminal may draw it in place."""

    text: str
    passing: bool = False


Tell = Callable[[Progress], None]
