"""Jobs in Azure Blob Storage that tasks find by a name, as a stand-in serves it: the tests of
stores_shared_jobs_test.py that do not remove parts of uploads, which Azure alone does."""

from stores_azure_writing_test import place, s3, surroundings  # noqa: F401
from stores_shared_jobs_test import (  # noqa: F401
    lines, sources, test_a_commit_that_fails_at_any_request_can_be_repeated,
    test_a_task_that_runs_again_writes_what_is_missing, test_clean_keeps_jobs_at_work, test_kinds_that_python_reads,
    test_late_tasks_and_other_datasets, test_tasks_at_the_same_time, test_tasks_that_differ,
    test_tasks_write_the_bytes_of_one_process, test_the_old_dataset_stays_until_the_commit)
