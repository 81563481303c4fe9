"""The banned patterns of scripts/check-prose. CONTRIBUTING.md has the language rule.

A space in a pattern matches any white space, so that a phrase is found across a line break. Case is ignored.
"""

import re
from dataclasses import dataclass, field

VERBS = (
    "is|was|are|were|be|has|have|had|does|did|do|stands|stood|waits|waited|comes|came|goes|went|runs|ran|can|could|may"
    "|might|must|will|would|should|cannot|belongs|follows|holds|remains|lies|needs|keeps|makes|made|decides|says|said"
    "|counts|looks|matters|fails|failed|ends|ended|begins|began|starts|started|reads|writes|takes|took|gives|gave|ties"
    "|differs|changes|changed|leads|exists|stays|fits|lives|lasts|uses|shows|tells|calls|sends"
)


@dataclass
class Pattern:
    """A name, a regular expression, the advice, texts that it must find, and texts that it must not find."""

    name: str
    expression: str
    advice: str
    finds: list
    spares: list = field(default_factory=list)
    # Questions are innocent: "What is sched?"
    spares_questions: bool = False

    def __post_init__(self):
        # A look-behind must have a fixed width, so a space in it matches one character.
        spaced = re.sub(r"(\(\?<![^)]*\))| ", lambda m: m.group(1).replace(" ", r"\s") if m.group(1) else r"\s+", self.expression)
        self.regex = re.compile(spaced, re.I)

    def matches(self, text):
        """Yields the matches outside questions."""
        for match in self.regex.finditer(text):
            if self.spares_questions and SENTENCE_END.search(text + " ", match.start()).group(1) == "?":
                continue
            yield match


SENTENCE_END = re.compile(r"([.?!\0])[\"')*_]*(?=\s|\0)|($)")

# The pattern of the rate per 1,000 words.
WHAT = "what-noun"

PATTERNS = [
    Pattern(
        WHAT,
        rf"\bwhat (?:{VERBS})\b",
        "name the noun: due jobs, the error",
        ["It reads what is due.", "what waits in vain", "Prints what\n was removed.", "What stands there is kept."],
        ["What is sched?", "See what happens if the leader dies.", "Whatever."],
        spares_questions=True,
    ),
    Pattern(
        "tell",
        r"\b(?:tells?|told|telling)\b(?! (?:\w+ )?apart)",
        "report, return, notify, log",
        ["The worker is told so.", "Tells the leader."],
        ["It tells them apart.", "the teller"],
    ),
    Pattern(
        "say",
        r"(?<!that is to )(?<!, )\b(?:says?|said|saying)\b",
        "report, state, name",
        ["The message says which.", "as was said above"],
        ["ten, say, or twenty", "that is to say", "an essay"],
    ),
    Pattern(
        "nobody",
        r"\b(?:nobody|somebody|someone|anybody)\b(?!:)",
        "name the actor: a user, a process, the client",
        ["Nobody waits for it.", "a job that somebody holds"],
        ["chown nobody:nogroup", "no body"],
    ),
    Pattern("whoever", r"\bwho(?:ever|mever|soever)\b", "name the actor", ["Whoever holds the lease writes."], ["who"]),
    Pattern(
        "who-pronoun",
        r"(?:(?:\A|[^\w\s'’])\s*|\b(?:is|was|as|does|has|this|thus|its|says|knows|tells|shows|decides|sees|asks|names)\s+"
        r"|\b(?!people\b|those\b)\w*[^\Ws]\s+)\bwhom?\b",
        "give `who` a noun: users who",
        ["It shows who acts.", "Who acts, and where.", "so that who guesses learns nothing", "the user who asks"],
        ["users who have the role", "people who read logs", "those who wait", "Who runs it?", "whose lease"],
        spares_questions=True,
    ),
    Pattern(
        "stands",
        r"(?<!-)\b(?:stands?|stood|standing)\b(?! for\b| alone\b| by\b)(?!-)",
        "is, exists, remains",
        ["The rule stands there.", "It stood in the file.", "Daemons stand in line."],
        ["UTC stands for", "Schedulers stand by.", "a standby", "stand-alone", "long-standing", "the standard"],
    ),
    Pattern("anew", r"\banew\b", "again", ["It is built anew."], ["a new file"]),
    Pattern("seldom", r"\bseldom\b", "rarely, or the interval", ["It looks seldom."], []),
    Pattern("in-vain", r"\bin vain\b", "without success", ["It waits in\nvain."], ["in various ways"]),
    Pattern(
        "held-against",
        r"\b(?:holds?|held|holding) (?:[\w`]+ ){0,2}against\b",
        "compare with",
        ["is held against the list", "hold args against the schema"],
        ["The lease is held. Against a race"],
    ),
    Pattern("is-none", r"\b(?:is|are|was|were) none\b", "there is no NOUN", ["The time is none."], ["is `None`"]),
    Pattern(
        "is-to-be",
        r"\b(?:is|are|was|were) to be\b",
        "must be, will be",
        ["The job is to be run."],
        ["It has to be run."],
    ),
    Pattern(
        "come-to",
        r"(?<!when it )\b(?:comes?|came|coming) to\b",
        "reach, become, total",
        ["It never comes to do more.", "They come to five."],
        ["when it comes to locks", "income to date"],
    ),
    Pattern("become-of", r"\b(?:becomes?|became) of\b", "happens to", ["what will become of it"], ["becomes off"]),
    Pattern(
        "for-good",
        r"\bfor good\b(?! (?:measure|reasons?|cause|performance|practice))",
        "permanently",
        ["It is disabled for good."],
        ["for good reasons", "for goods"],
    ),
    Pattern("mend", r"\bmend(?:s|ed|ing)?\b", "fix", ["Mend it."], ["recommend", "amended"]),
    Pattern("that-which", r"\bthat which\b", "name the noun", ["It keeps that which failed."], ["the table that"]),
    Pattern("whether-or-no", r"\bwhether or no\b", "whether", ["whether or no it ran"], ["whether or not"]),
    Pattern(
        "by-itself",
        r"\bby (?:itself|themselves)\b",
        "automatically",
        ["It starts by itself.", "They end by themselves."],
        ["by its lease"],
    ),
    Pattern(
        "of-its-own",
        r"\bof (?:its|their|our|his|one['’]s) own\b",
        "own, separate",
        ["a pool of its own"],
        ["its own pool"],
    ),
    Pattern("meant-for", r"\bmeant for\b", "for, intended for", ["It is meant for tests."], ["meant to"]),
    Pattern("be-it", r"\bbe it\b", "either, or", ["a key, be it new or old"], ["maybe it"]),
    Pattern(
        "others",
        r"\bothers\b",
        "name the noun: the other workers",
        ["It does not wait for the others."],
        ["the other workers"],
    ),
    Pattern(
        "in-order",
        r"\b(?:is|are|was|were|everything|all) in order\b(?! (?:to|of|by)\b)",
        "cleanly, correct",
        ["It ends when all is in order."],
        ["in order to", "rows are in order of time"],
    ),
    Pattern(
        "ask",
        r"\b(?:asks?|asked|asking)\b(?! (?:the |an? )?(?:users?|operators?|for (?:a )?(?:confirmation|password))\b)",
        "query, request, read",
        ["It asks the database.", "the job that is asked about"],
        ["It asks the user.", "asks for confirmation", "a task"],
    ),
    Pattern(
        "look",
        r"\b(?:looks?|looked|looking)\b(?![- ](?:up|like|ahead|behind|alike)\b)",
        "check, query, poll, search",
        ["The worker looks again.", "Looks for due jobs."],
        ["It looks up the name.", "looks like a path", "a look-ahead", "a lookup"],
    ),
    Pattern(
        "make",
        r"\b(?:(?:is|are|was|were|be|been) made\b(?! (?:up|of)\b)|(?:makes?|made|making) (?:an?|the|new|one|its|their)\b"
        r"(?! (?:\w+ )?(?:difference|requests?|decision|call|change|progress|copy|guess|choice|mistake)))",
        "create, build",
        ["A row is made.", "It makes a key.", "made the plan"],
        ["make sure", "makes a difference", "makes a new request", "makes it slow"],
    ),
    Pattern("meanwhile", r"\bmeanwhile\b", "concurrently, until then", ["Others run meanwhile."], ["in the mean"]),
    Pattern(
        "whatever",
        r"\bwhatever\b(?! (?:happens))",
        "any NOUN, every NOUN",
        ["Whatever is dispatched is refused."],
        ["whatever happens"],
    ),
    Pattern(
        "is-no",
        r"(?<!there )\b(?:is|are|was|were) no\b(?! (?:longer|more|less|later|earlier|need|guarantee|better|worse|way)\b)",
        "is not a NOUN; there is no NOUN",
        ["error: 5 is no instant"],
        ["There is no row.", "It is no longer read.", "is not a time"],
    ),
    Pattern(
        "in-line",
        r"\bin line\b(?! (?:with|\d))",
        "queued",
        ["The run waits in line."],
        ["in line with the schema", "in line 5", "inline"],
    ),
    Pattern(
        "archaic",
        r"\b(?:lest|whence|thence|whither|hitherto|thereof|therewith|whereof|amid|ere)\b",
        "so that not, from where",
        ["lest it be lost", "whence it came"],
        ["latest", "where"],
    ),
]


def self_test():
    """Returns a list of the examples that a pattern does not find and of the texts that it finds wrongly."""
    failures = []
    for pattern in PATTERNS:
        failures += [f"{pattern.name} does not find: {text}" for text in pattern.finds if not any(pattern.matches(text))]
        failures += [f"{pattern.name} finds: {text}" for text in pattern.spares if any(pattern.matches(text))]
    return failures
