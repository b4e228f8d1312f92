"""Gold sets: read, check, split and write judged queries, and read anyone's run.

A gold set is a BEIR directory (`corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`) with an
optional `gold.yaml`. Every id is text, every grade an integer, and every bad input is one
`InputError` that names the file, the line and the remedy.
"""

from gold.beir import write_beir
from gold.corpus import corpus_ids, read_corpus
from gold.faults import InputError
from gold.importing import ImportReport, import_gold
from gold.loading import load, splits
from gold.mentions import GoldMention, LinkingSet, is_linking, load_mentions
from gold.model import CorpusDocument, GoldQuery, GoldSet, Run, Settings
from gold.qrels import read_qrels
from gold.runs import read_run
from gold.splitting import Move, Splits, folds, make_splits, moved
from gold.spreadsheets import Columns
from gold.statistics import stats
from gold.trec import write_qrels, write_run
from gold.validation import Problem, Report, validate

__all__ = [
    "Columns",
    "CorpusDocument",
    "GoldMention",
    "GoldQuery",
    "GoldSet",
    "ImportReport",
    "InputError",
    "LinkingSet",
    "Move",
    "Problem",
    "Report",
    "Run",
    "Settings",
    "Splits",
    "corpus_ids",
    "folds",
    "import_gold",
    "is_linking",
    "load",
    "load_mentions",
    "make_splits",
    "moved",
    "read_corpus",
    "read_qrels",
    "read_run",
    "splits",
    "stats",
    "validate",
    "write_beir",
    "write_qrels",
    "write_run",
]
