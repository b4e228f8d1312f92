"""Chemical structures as vectors: Morgan fingerprints of the parent, so that salts compare equal.

The parent of a structure is its fragment of most heavy atoms, organic before inorganic (counter
ions, solvents and water go), with functional groups in one notation (`S(=O)` and `[S+][O-]` are
the same sulfoxide) and charges neutralised where a hydrogen can do so (a salt's parent equals the
free base or acid; a quaternary ammonium keeps its charge). Metals drawn with covalent bonds stay:
taking them off would turn cisplatin into ammonia. Tautomers are not unified.

Counts rather than bits and chirality included, because of what they keep apart: of 7,112
distinct parents (approved drugs, kinase inhibitors and a drug-name dictionary) 97 share a vector
with another, 170 by bits, 748 without chirality.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from retriever.encoders.base import Spans, Vectors
from retriever.files import InputError

__all__ = ["MAX_CHARACTERS", "MorganStructures", "parent_smiles"]

# The longest structure of an approved drug is written in about 1,350 characters.
MAX_CHARACTERS = 2_000
RADIUS = 2
DIMENSION = 2048


def parent_smiles(smiles: str) -> str | None:
    """Return the canonical SMILES of a structure's parent, None for what is no structure.

    Stereochemistry and isotopes are kept. Text over 2,000 characters is no structure here.
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        parent = _parent(smiles)
        return None if parent is None else str(Chem.MolToSmiles(parent))


class MorganStructures:
    """Encodes SMILES as unit vectors of Morgan counts (radius 2, chirality, 2,048 cells).

    The cosine of two vectors is 1 for equal parents and falls with the share of common atom
    environments. Rogers and Hahn, Extended-Connectivity Fingerprints, J. Chem. Inf. Model. 2010.
    Takes the place of a text encoder where the texts are SMILES.
    """

    @property
    def name(self) -> str:
        """Name of the encoder, as reports show it."""
        return f"rdkit-morgan-r{RADIUS}-{DIMENSION}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all that decides a vector, RDKit's version included."""
        from rdkit import rdBase

        decides = f"{self.name} counts chirality parent-1 rdkit-{rdBase.rdkitVersion}"
        return hashlib.sha256(decides.encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return DIMENSION

    def token_spans(self, texts: Sequence[str]) -> Sequence[Spans]:
        """Raise InputError: a structure is no text and is never cut into chunks."""
        raise InputError(
            f"{self.name} reads structures, which have no tokens",
            fix="chunk texts by the encoder of a text collection",
        )

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, 2048), one a SMILES. Raises InputError for what is none."""
        from rdkit import rdBase

        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        with rdBase.BlockLogs():
            for row, smiles in enumerate(texts):
                parent = _parent(smiles)
                if parent is None:
                    raise InputError(
                        f"{smiles[:80]!r} is no structure", fix="a SMILES such as CC(=O)O"
                    )
                counts = _tools().generator.GetCountFingerprintAsNumPy(parent).astype(np.float64)
                vectors[row] = counts / np.linalg.norm(counts)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the same vectors as for documents: a structure is one whoever holds it."""
        return self.encode_documents(texts)


class _Tools(NamedTuple):
    chooser: Any
    normalizer: Any
    uncharger: Any
    generator: Any


@cache
def _tools() -> _Tools:
    from rdkit.Chem import rdFingerprintGenerator
    from rdkit.Chem.MolStandardize import rdMolStandardize

    largest: Any = rdMolStandardize.CleanupParameters()
    largest.preferOrganic = True
    # Hydrogens counted, ammonia would be larger than the PtCl2 it comes with.
    largest.largestFragmentChooserCountHeavyAtomsOnly = True
    return _Tools(
        rdMolStandardize.LargestFragmentChooser(largest),
        rdMolStandardize.Normalizer(),
        rdMolStandardize.Uncharger(),
        rdFingerprintGenerator.GetMorganGenerator(
            radius=RADIUS, fpSize=DIMENSION, includeChirality=True
        ),
    )


def _parent(smiles: str) -> Any | None:
    from rdkit import Chem

    if not smiles.strip() or len(smiles) > MAX_CHARACTERS:
        return None
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or not molecule.GetNumAtoms():
        return None
    tools = _tools()
    return tools.uncharger.uncharge(tools.normalizer.normalize(tools.chooser.choose(molecule)))
