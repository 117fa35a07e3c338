"""The comparator of static regret, the best fixed decision in hindsight, and the regret of a run."""
