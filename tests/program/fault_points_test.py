"""Some of the faults of fault_points.py; scripts/faults tries all of them."""

import fault_points


def test_old_or_new_at_every_fault(faults, tmp_path):
    tried, wrong = fault_points.run_all(faults, tmp_path, share=(1, 37))
    assert wrong == []
    assert tried > 100
