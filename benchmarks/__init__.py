"""How fast is Headwater, against what a user would pick instead and against what the machine can
do?

``python -m benchmarks`` answers in one run, with ratios; ``make bench`` runs it and the studies
below as one (`pieces`), and `publish` puts what it found into the documents. Every contender runs
in processes of its own, the peers in virtual environments of their own that the command sets up;
all do the same work, their results are compared before anything is timed, and their rounds take
turns, so that a machine that slows down slows everybody down.

| folder | what is in it |
|---|---|
| `harness/` | how a comparison is run |
| `peers/` | one small runner per contender, all speaking `peers/gate` |
| `studies/` | questions of our own, each a command: `python -m benchmarks.studies.growth` |

In the harness:

| file | concept |
|---|---|
| `workloads` | what is computed: network, clients, samples, batches |
| `jobs` | a workload as files: data and first weights |
| `networks` | the networks and losses, in PyTorch |
| `reference`, `checks` | the right answer of one round, in double precision; who computes it |
| `contenders` | who takes part: peers, the limit of the machine, Headwater; and what each can do |
| `environments` | a pinned virtual environment per peer |
| `runner` | a contender's process as seen from here: start, ask for rounds, pause, end |
| `memory` | how much memory a tree of processes takes |
| `entries`, `measure` | one contender's turns; everybody's turns |
| `machine`, `results`, `table`, `picture` | what was measured on what, for people and programs |
"""
