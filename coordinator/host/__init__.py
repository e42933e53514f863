"""Everything that touches the host: processes, mechanisms, launchers, run directories, release."""
