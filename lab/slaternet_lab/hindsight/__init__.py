"""What would have been best in hindsight: the comparator of static regret, and the regret of a run."""
