"""From records to results: rows, statistics, agreement, caveats, timelines."""
