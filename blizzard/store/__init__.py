"""Where bytes are: local disk or object storage, behind one small protocol.

`root` is an absolute local path or a normalised URI. A `Store` is that root, opened with credentials.
"""

from __future__ import annotations

import os
from functools import lru_cache

from blizzard.store.access import NO_ACCESS, Access
from blizzard.store.files import Store
from blizzard.store.uri import is_local
from blizzard.text.redaction import learn_named


@lru_cache(maxsize=1024)  # a fleet has three for each pipeline
def open_store(root: str, access: Access = NO_ACCESS) -> Store:
    """The same store for the same root, so connections are kept. Makes no request."""
    if is_local(root):
        from blizzard.store.local import LocalStore

        return LocalStore(root)
    learn_named(dict(access.options))  # in a task's process nobody has learned these secrets yet
    if root.startswith("s3://"):
        from blizzard.store.s3 import S3Store

        return S3Store(root, access)
    if root.startswith("gs://"):
        from blizzard.store.gcs import GcsStore

        return GcsStore(root, access)
    if root.startswith(("abfss://", "az://")):
        from blizzard.store.azure import AzureStore

        return AzureStore(root, access)
    from blizzard.store.objects import ObjectStore

    return ObjectStore(root, access)


# After a fork the child has none of the store's threads, and would share its connections.
os.register_at_fork(after_in_child=open_store.cache_clear)
