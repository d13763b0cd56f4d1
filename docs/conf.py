"""The documentation site: `make docs`. Pages under docs/generated are written from the code before Sphinx reads them."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.site import pages  # noqa: E402

from gradveil import __version__  # noqa: E402

pages.write(ROOT / "docs" / "generated")

project, author, release = "gradveil", "the gradveil authors", __version__
extensions = ["myst_nb"]
html_theme = "sphinx_book_theme"
html_title = "gradveil"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["names.js"]
smartquotes = False  # it would write --rounds with a dash
html_theme_options = {"show_navbar_depth": 1, "use_download_button": False, "home_page_in_toc": True}
html_copy_source = html_show_sourcelink = False
exclude_patterns = ["schemas/*.md"]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4

# Cells call `gradveil` of this environment. No widget is installed that tqdm could show its bars with.
os.environ |= {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "COLUMNS": "88", "PYTHONWARNINGS": "ignore:IProgress"}
os.environ["IPYTHONDIR"] = str(ROOT / "build" / "docs" / "ipython")
startup = ROOT / "build" / "docs" / "ipython" / "profile_default" / "startup"
startup.mkdir(parents=True, exist_ok=True)
shutil.copy(ROOT / "tools" / "site" / "bash_cells.py", startup)

digest = hashlib.sha256()
for source in (ROOT / "tools" / "site" / "bash_cells.py", *sorted((ROOT / "src").rglob("*.py"))):
    digest.update(source.read_bytes())
# What a notebook printed is kept by its text; a change of the package begins anew.
nb_execution_mode = os.environ.get("GRADVEIL_NOTEBOOKS", "cache")
nb_execution_cache_path = str(ROOT / "build" / "docs" / "executed" / digest.hexdigest()[:16])
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_merge_streams = True


def setup(app):
    """Lead links to files beside docs/ to their pages: in the repository they lead to the files."""

    def lead(app, docname, source):
        source[0] = source[0].replace("](../CONTRIBUTING.md)", "](generated/contributing.md)")

    app.connect("source-read", lead)
