"""Convergence: writers change documents while workers are killed and frozen; afterwards it is judged.

    python -m tests.reactive.convergence --store postgres --seconds 60 --writers 8 --documents 1000 --seed 7
    python -m tests.reactive.convergence.judge DIR

Writers and bodies write down what they did and saw; the judgement reads these files and nothing else.
"""
