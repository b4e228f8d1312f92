"""Draw docs/evaluate.svg: the table of an evaluation, as a terminal shows it.

    python docs/picture.py RUN

RUN is a run directory that `make demo` wrote.
"""

import json
import re
import sys
from pathlib import Path

from experiments.screen import Screen
from experiments.show import print_record


def main() -> None:
    """Draw."""
    record = json.loads((Path(sys.argv[1]) / "run.json").read_text("utf-8"))
    with Path("/dev/null").open("w") as nowhere:
        console = Screen(record=True, width=150, file=nowhere)
        print_record(record, console)
        svg = console.export_svg(title="assay demo")
    # The page that shows the picture must not fetch fonts from anywhere.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    Path(__file__).with_name("evaluate.svg").write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
