"""From records to answers: rows, statistics, agreement, caveats, timelines."""
