"""Times two builds of our peer program in turns: did a change make anything slower?

    peers/turns.py OLD NEW [--only PART] [--limit 5]

OLD and NEW are two builds of the example `peer` of ops-cpu. Every case is timed in three rounds, the one build and then the
other. Prints the three ratios of each case whose new build is slower by more than the limit, in percent, in at least one round,
and fails if it is so in all three.
"""

import argparse
import os

from compare import ROUNDS, Peer, cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--limit", type=float, default=5.0, help="percent")
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    old, new = Peer([args.old]), Peer([args.new])
    slower, ratios = [], []
    chosen = [name for name, _, _ in cases() if args.only in name]
    for at, name in enumerate(chosen):
        print(f"\r{at + 1}/{len(chosen)} {name:<60}", end="", flush=True)
        rounds = []
        for _ in range(ROUNDS):
            before, after = old.ask(name), new.ask(name)
            if before and after:
                rounds.append(after / before)
        if not rounds:
            continue
        ratios.append(sorted(rounds)[len(rounds) // 2])
        bad = [ratio for ratio in rounds if ratio > 1 + args.limit / 100]
        if bad:
            print(f"\r{name:<50} " + " ".join(f"{ratio:.3f}" for ratio in rounds))
        if len(bad) == len(rounds):
            slower.append(name)
    print(f"\r{len(ratios)} cases, median of the medians {sorted(ratios)[len(ratios) // 2]:.3f}" + " " * 40)
    if slower:
        raise SystemExit(f"slower by more than {args.limit:g} % in every round: {', '.join(slower)}")


if __name__ == "__main__":
    main()
