"""The collection being rewritten: each implementation under its suites."""

from __future__ import annotations

from contract.documents_fixture import EachDocuments
from migronaut.testing.contracts import DocumentsReadingContract, DocumentsRewritingContract, DocumentsWritingContract


class TestReading(EachDocuments, DocumentsReadingContract):
    pass


class TestWriting(EachDocuments, DocumentsWritingContract):
    pass


class TestRewriting(EachDocuments, DocumentsRewritingContract):
    pass
