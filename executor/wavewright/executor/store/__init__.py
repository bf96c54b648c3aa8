"""What every store of runs and jobs shares: ports, errors, records, rules, rows and leases."""
