"""How values are shown: DataFrames in a notebook, durations, times and bytes."""
