"""What the benchmarks share: streams, scenarios, the sides that run them, figures, goals and tables."""
