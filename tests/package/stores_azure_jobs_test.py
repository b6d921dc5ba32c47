"""Jobs whose dataset is in Azure Blob Storage, as a stand-in serves it: the tests of stores_jobs_test.py
that do not ask whether parts of uploads were removed, which Azure alone does."""

from stores_azure_writing_test import place, s3, surroundings  # noqa: F401
from stores_jobs_test import (  # noqa: F401
    test_a_commit_does_not_replace_what_was_written_meanwhile,
    test_a_commit_that_fails_at_any_request_can_be_repeated, test_aborting_leaves_nothing,
    test_attempts_beside_each_other_count_once, test_clean_heeds_jobs_at_work, test_clean_removes_old_jobs,
    test_commits_may_be_repeated, test_large_parts_are_several_pieces,
    test_other_peoples_messages_remove_nothing, test_parts_become_the_dataset_that_a_folder_has,
    test_parts_that_are_gone_are_an_error, test_the_old_dataset_is_there_until_the_commit,
    test_what_is_no_dataset_is_not_committed, wanted)
