"""Side-by-side benchmarks. Machines are noisy, so everything is measured in one interleaved run and told as ratios."""
