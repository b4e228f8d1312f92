"""A million generated terms: seconds and memory to load them, queries matched a second.

Every phase runs in a process of its own, so that memory is its own too. Terms are names, codes and
phrases made from a seed; a query has 12 words, every third query a term in it. Seconds are those
of the processor.

    python benchmarks/matching.py [--terms 1000000] [--queries 20000] [--json]
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from retriever.biomed.lexicon import Entity, Lexicon, load_lexicon
from retriever.biomed.lexicon_sources import write_lexicon

SYLLABLES = "ba ce di fo gu ka le mi no pu ra se ti vo xu za bri cla dro fle gli pra stu".split()
ENDINGS = "nib mab stat pril sartan olol azole cillin itis oma emia osis pathy vir ine".split()
NAMES_EACH = 3


def word(rng: random.Random, ending: bool = True) -> str:
    """Return a pronounceable word of three to five syllables."""
    stem = "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4)))
    return stem + (rng.choice(ENDINGS) if ending else "")


def term(rng: random.Random, number: int) -> str:
    """Return a name, a code or a phrase, none of them twice."""
    kind = number % 4
    if kind == 0:
        return f"{word(rng)}{number:x}"
    if kind == 1:
        return f"{word(rng, False)[:3].upper()}-{number}"
    words = " ".join(word(rng) for _ in range(2 if kind == 2 else 3))
    return f"{words} {number}" if kind == 3 else f"{words}-{number:x}"


def generate(count: int, seed: int = 0) -> list[Entity]:
    """Return records with three names each, `count` names in all."""
    rng = random.Random(seed)
    names = [term(rng, i) for i in range(count)]
    return [
        Entity(
            f"C{i:07d}",
            names[i],
            tuple(names[i + 1 : i + NAMES_EACH]),
            ("Pharmacologic Substance",),
            True,
        )
        for i in range(0, count, NAMES_EACH)
    ]


def queries(count: int, lexicon: Lexicon, seed: int = 1) -> list[str]:
    """Return texts of 12 words; every third holds a term among plain words."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        words = [word(rng, ending=rng.random() < 0.3) for _ in range(12)]
        if i % 3 == 0:
            own = rng.choice(lexicon.entities).name.split()[:12]
            words = [*own, *words[len(own) :]]
        found.append(" ".join(words))
    return found


def measure(path: Path, count: int) -> dict[str, float]:
    """Load a lexicon, match queries, and return what it took."""
    # Processor time, as one thread does all: another process on the core is not our cost.
    begin = time.process_time()
    lexicon = load_lexicon(path)
    loaded = time.process_time()
    lexicon.match("warm up")
    built = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    texts = queries(count, lexicon)
    begin_matching = time.process_time()
    matched = sum(bool(lexicon.match(text)) for text in texts)
    seconds = time.process_time() - begin_matching
    return {
        "records": len(lexicon),
        "read_s": loaded - begin,
        "build_s": built - loaded,
        "load_s": built - begin,
        "memory_gib": memory,
        "queries": count,
        "with_a_match": matched,
        "queries_per_s": count / seconds,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--terms", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.queries)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "lexicon.json"
        write_lexicon(path, generate(options.terms))
        size = path.stat().st_size / 1024**2
        child = [
            sys.executable,
            __file__,
            "--measure",
            str(path),
            "--queries",
            str(options.queries),
        ]
        done = subprocess.run(child, capture_output=True, text=True, check=True)
    found = {"terms": options.terms, "file_mib": size, **json.loads(done.stdout)}
    if options.json:
        print(json.dumps(found))
        return
    print(f"{options.terms:,} terms in {found['records']:,} records, a file of {size:.0f} MiB")
    print(
        f"load: {found['load_s']:.1f} s (read {found['read_s']:.1f}, automaton "
        f"{found['build_s']:.1f}), {found['memory_gib']:.2f} GiB at most"
    )
    print(
        f"match: {found['queries_per_s']:,.0f} queries of 12 words a second "
        f"({found['with_a_match']:,} of {found['queries']:,} with a match)"
    )


if __name__ == "__main__":
    main()
