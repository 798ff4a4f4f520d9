"""The text of a new migration file. ``{title}`` stands for the description."""

ORDINARY = '''"""{title}."""


# Background files that must be through before this one runs.
# requires = ["20261001120000_an_earlier_one.py"]


def up(ctx):
    """Change the database.

    ctx.db is the database, ctx.logger a logger. If this is interrupted it is not recorded as
    applied and runs again from the top, so write each step such that a second time does no harm.
    """
    raise NotImplementedError("write up(ctx), for example: ctx.db.orders.create_index('customer')")
'''

BACKGROUND = '''"""{title}.

`migronaut up` only registers this; `migronaut background run` or your queue's workers do the work
beside the running application, in batches, and go on where they stopped.
"""

from migronaut import Background


def migrate(doc):
    """Return the whole new document. It is a copy: change it in place if you like.

    An exception fails this one document (see max_document_errors). Do not touch the version field,
    the engine sets it. Do not do side effects here: a document may be transformed more than once.
    """
    # doc["shipping"] = {"address": doc.pop("address")}
    raise NotImplementedError("write migrate(doc)")


# The way back, if there is one. Give it below as revert=revert.
# def revert(doc):
#     doc["address"] = doc.pop("shipping")["address"]
#     return doc


# Background files that must be through before this one begins. Those that follow each other by
# their versions on one collection wait without it.
# requires = ["20261001120000_an_earlier_one.py"]

background = Background(
    collection="TODO",  # the collection to rewrite
    # Which documents are still to do. Either by version, where documents carry schema_version
    # (one without it counts as version 0) ...
    from_version=0,
    to_version=1,
    # ... or, instead of the versions, by a filter that matches until a document is migrated:
    # filter={"shipping": {"$exists": False}},
    migrate=migrate,
    # All others have defaults; these are some of them:
    # batch_size=500,  # documents per write
    # pause=0.1,  # seconds between two writes of a lane
    # max_parallel=1,  # lanes in all processes together
    # max_document_errors=0,  # documents that may fail before the migration does
)
'''
