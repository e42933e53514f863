"""The survey of Markatos and LeBlanc 1999: what it says of scheduling systems (docs/survey.md)."""
