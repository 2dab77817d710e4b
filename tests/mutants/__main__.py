"""`make mutants`: a table of all mutants; exit code 1 if one survives or can't be judged."""

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutants import Mutant, copy_tree, judge, mutants, run_tests, uses_the_copy


def main(wanted: list[str]) -> int:
    chosen = [each for each in mutants() if not wanted or each.name in wanted]
    if not chosen:
        print(f"no such mutant: {' '.join(wanted)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="chunkside-mutants-") as scratch:
        root = Path(scratch)
        if not _is_green_without_any(chosen, root / "none"):
            return 1
        return _run(chosen, root)


def _is_green_without_any(chosen: list[Mutant], tree: Path) -> bool:
    tree.mkdir()
    copy_tree(tree)
    if not uses_the_copy(tree):
        print("a run in the copy imports another chunkside", file=sys.stderr)
        return False
    tests = tuple(sorted({test for each in chosen for test in each.tests}))
    result = run_tests(tests, tree)
    if result.returncode:
        print(result.stdout, "The tests fail without any mutant.", sep="\n", file=sys.stderr)
    return result.returncode == 0


def _run(chosen: list[Mutant], root: Path) -> int:
    def judged(mutant: Mutant) -> str:
        scratch = root / mutant.name
        scratch.mkdir()
        return judge(mutant, scratch)

    width = max(len(each.name) for each in chosen)
    failures = 0
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for mutant, verdict in zip(chosen, pool.map(judged, chosen), strict=True):
            failures += verdict != "caught"
            print(f"{mutant.name:<{width}}  {verdict:<15}  {mutant.rule}", flush=True)
    print(f"{len(chosen) - failures} of {len(chosen)} caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
