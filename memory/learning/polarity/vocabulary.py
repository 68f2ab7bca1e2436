"""The words of rules and findings about software: what says the same, the contrary, what binds, and what is idle.

WordNet (see `lexicon`) knows general English; it does not know that a repo is a repository.
"""

from __future__ import annotations

IDLE_TEXT = """
a an the this that these those it its they them we us our you your i me my
am is are was were be been being do does did has have had having will would shall there here
also too just so then very really simply please already now currently actually basically always both own itself
definitely certainly indeed well quite rather explicitly here
"""
"""Words that carry nothing that a duplicate could lose."""

BE = frozenset({"am", "is", "are", "was", "were", "be", "been", "being", "gets", "got"})
AUXILIARIES = BE | {"do", "does", "did", "has", "have", "had", "will", "would", "shall", "should", "must", "can"}
AUXILIARIES |= {"could", "may", "might", "to", "please", "just", "but", "that", "so", "you", "we", "it", "they", "i"}
PARTICIPLES_LIKE_THE_VERB = frozenset(
    {"run", "set", "put", "read", "cut", "hit", "let", "reset", "rerun", "shut", "split"}
)

NOT, INSTEAD, PURPOSE = "<not>", "<instead>", "<purpose>"
MUST, SHOULD, CAN, NEED_NOT = "<must>", "<should>", "<can>", "<need not>"

PHRASES_TEXT = """
do not need to: <need not>
does not need to: <need not>
do not have to: <need not>
does not have to: <need not>
need not: <need not>
no need to: <need not>
is not required to: <need not>
are not required to: <need not>
is not necessary to: <need not>
not be able to: <not>
is not able to: <not>
are not able to: <not>
is unable to: <not>
are unable to: <not>
is not allowed to: <not>
are not allowed to: <not>
must never: <not>
should never: <not>
must not: <not>
should not: <not>
shall not: <not>
can not: <not>
could not: <not>
would not: <not>
will not: <not>
ought not to: <not>
does not: <not>
do not ever: <not>
do not: <not>
did not: <not>
never ever: <not>
never: <not>
refrain from: <not>
steer clear of: <not> use
stay away from: <not> use
keep away from: <not> use
abstain from: <not>
fails to: <not>
fail to: <not>
failed to: <not>
no longer: <not>
nor: <not>
neither: <not>
none of: <not>
no: <not>
without: with <not>
and not: <instead>
but not: <instead>
instead of: <instead>
rather than: <instead>
in place of: <instead>
in favor of: <in favour>
in favour of: <in favour>
as opposed to: <instead>
has to: <must>
have to: <must>
had to: <must>
needs to: <must>
need to: <must>
is required to: <must>
are required to: <must>
it is required that: <must>
it is important to: <should>
is supposed to: <should>
are supposed to: <should>
ought to: <should>
it is best to: <should>
it is better to: <should>
it is recommended to: <should>
make sure that: <should>
make sure to: <should>
make sure: <should>
be sure to: <should>
be sure that: <should>
take care to: <should>
remember to: <should>
do remember to: <should>
do not forget to: <should>
never forget to: <should>
ensure that: <should>
ensure: <should>
must: <must>
should: <should>
shall: <must>
is able to: <can>
are able to: <can>
is allowed to: <can>
are allowed to: <can>
is free to: <can>
may: <may>
might: <may>
can: <can>
could: <can>
in order to: to
in order that: <purpose>
so that: <purpose>
such that: <purpose>
so as to: <purpose>
therefore: so
hence: so
thus: so
which means that: so
in this project: here
in this repo: here
in this repository: here
in this codebase: here
in our codebase: here
in this code base: here
or else: otherwise
due to: because
owing to: because
thanks to: because
because of: because
on account of: because
given that: because
seeing that: because
since: because
as soon as: when
every time: when
each time: when
any time: when
in case: when
in the event that: when
provided that: when
whenever: when
if: when
upon: when
prior to: before
ahead of: before
in advance of: before
earlier than: before
following: after
subsequent to: after
later than: after
with the help of: with
by means of: with
by way of: with
by using: with
via: with
through: with
inside of: in
inside: in
within: in
onto: on
as well as: and
along with: and
together with: and
in addition to: and
plus: and
at all times: always
in all cases: always
in every case: always
each and every: all
every single: all
every: all
each: all
stick to: use
stick with: use
go with: use
opt for: use
go for: use
rely on: use
reach for: use
make use of: use
take advantage of: use
set up: configure
turn on: enable
turned on: enabled
switch on: enable
switched on: enabled
turn off: disable
turned off: disabled
switch off: disable
switched off: disabled
get rid of: remove
carry out: run
kick off: start
start up: start
boot up: start
shut down: stop
bring up: start
tear down: stop
look up: find
point to: refer
by hand: manually
picks up: read
pick up: read
have an absence of: lack
against the law: illegal
turn down: reject
turned down: rejected
as a result: so
leads to: cause
lead to: cause
led to: cause
results in: cause
result in: cause
resulted in: cause
gives rise to: cause
is the reason for: cause
is responsible for: cause
is due to: because
lives in: is in
live in: is in
are located in: is in
are found in: is in
reside in: is in
are stored in: is in
is located in: is in
is found in: is in
resides in: is in
is stored in: is in
is equal to: is
equals: is
for example: example
e.g: example
the reason is that: because
kind of: kind
out of: from
depends on: depend
depend on: depend
relies on: depend
at least: <at least>
at most: <at most>
no more than: <at most>
no less than: <at least>
no fewer than: <at least>
not more than: <at most>
not less than: <at least>
up to: <at most>
more than: <more than>
greater than: <more than>
larger than: <more than>
higher than: <more than>
less than: <less than>
fewer than: <less than>
smaller than: <less than>
lower than: <less than>
"""
"""From words as they stand to what they are read as, the longest first."""

CLAUSES = frozenset({"before", "after", "when", "unless", "until", "while", "because", "so", "otherwise", "but"})
CLAUSES |= {INSTEAD, PURPOSE, "although", "though", "whereas", "except", "where"}
REASONS = frozenset({"because", PURPOSE, "otherwise", "which"})
PREPOSITIONS_TEXT = """
in on at to for from with by into over under per during between against as like than about above below across behind
beyond near since outside toward towards among around only_in except_for despite alongside beneath beside besides
"""

SYNONYMS_TEXT = """
use utilize utilise employ prefer favor favour choose select pick adopt
run execute perform invoke call
start launch begin boot initiate
stop halt terminate end
delete remove erase drop
create generate produce
show display
fix repair correct solve resolve
check verify validate confirm
need require expect demand
folder directory dir
repo repository
config configuration
settings options
db database
param parameter argument arg
env environment
var variable
docs documentation doc
auth authentication
dep dependency
app application
spec specification
prod production
dev development
fail break crash
big large huge
small little tiny
quick fast rapid
quickly fast rapidly
slow sluggish
often frequently
rarely seldom hardly scarcely infrequently
wrong incorrect erroneous
right correct
store save persist
get fetch retrieve obtain
send transmit
change modify edit alter
throw raise
contain hold
put place
allow permit let
forbid prohibit disallow ban
omit skip
missing absent
lack miss
mandatory required compulsory obligatory necessary
optional voluntary
previous prior
whole entire full complete
same identical
different distinct
similar alike
copy duplicate
error exception
bug defect
answer reply respond response
return yield give
accept take
reject refuse decline deny
make cause
finish complete
wait block
keep retain preserve
write output
load import
enable activate
disable deactivate
install setup
connect attach
split divide
merge combine join
shorten abbreviate
key identifier id
user customer
only solely exclusively
immediately instantly directly
must shall
build compile
crash die
hide conceal
buy purchase
help assist
illegal unlawful
trigger fire
increase raise
decrease reduce lower
memory ram
stop shutdown
overwrite override
live reside lie
"""
"""Groups of words that a learning may use one for another."""

TERMS_TEXT = """
stack heap queue thread process string array list table class object method function field key lock shell pipe port
branch commit push pull fetch read write record set fix check stop test mock log post put get patch head option trace
node edge leaf tree root path file module package library type interface event signal stream buffer
channel socket session
token cookie header body form page view model schema index query row column cell value constant variable pointer
reference map reduce filter sort group batch bulk chunk block page frame packet message mail topic job task worker pool
cluster host server client peer proxy gateway router bridge switch hub service daemon kernel driver device disk drive
memory cache store storage bucket container image volume layer build release version tag snapshot fork clone merge
patch diff hook plugin extension theme style state status mode level stage environment scope context namespace domain
address link anchor label flag mark switch toggle button counter timer clock time date day hour minute second week
month year size length width height depth count number amount rate limit quota range offset order rank score weight
load dump import export copy move rename link mount bind listen accept connect join leave enter exit open close
start end begin raise lower hold keep drop take give send serve wait sleep poll retry pause resume return pass break
continue throw catch try assert expect match compare parse render format print show hide draw paint validate verify
sign encrypt hash salt seed sample train fit score user admin guest owner member group role account profile customer
order item product invoice payment charge refund price test suite case fixture stub fake spy line char character word
letter digit bit byte integer float double decimal text binary comment note doc page site
"""
"""Terms: beside them WordNet's synonyms mean something else, as "heap" beside "stack" or "record" beside "read"."""

COMPLEMENTS_TEXT = """
enable/disable allow/forbid allow/deny permit/deny required/optional mandatory/optional valid/invalid safe/unsafe
supported/unsupported include/exclude accept/reject succeed/fail work/fail pass/fail possible/impossible
true/false present/missing present/absent known/unknown legal/illegal official/unofficial used/unused
sync/async synchronous/asynchronous mutable/immutable deterministic/nondeterministic stable/unstable
necessary/unnecessary available/unavailable reachable/unreachable correct/incorrect right/wrong
complete/incomplete finished/unfinished visible/invisible able/unable usual/unusual common/uncommon
support/lack have/lack remember/forget success/failure agree/disagree like/dislike
"""
"""Pairs of which the one is as good as "not" the other."""

ANTONYMS_TEXT = """
before/after taken/released on/off start/stop open/close always/never all/none all/some first/last first/second min/max
minimum/maximum read/write add/remove add/delete create/delete create/remove increase/decrease raise/lower up/down
must/can above/below more/less upper/lower push/pull push/pop get/set get/post put/get put/delete
left/right local/remote public/private lock/unlock acquire/release client/server input/output source/target
source/sink production/staging development/production production/test encode/decode encrypt/decrypt
serialize/deserialize import/export mount/unmount subscribe/unsubscribe install/uninstall load/unload
load/save attach/detach
connect/disconnect commit/rollback upgrade/downgrade ascending/descending asc/desc inner/outer inclusive/exclusive
global/local
eager/lazy eagerly/lazily strict/lenient strict/loose explicit/implicit static/dynamic internal/external
parent/child ancestor/descendant head/tail top/bottom begin/end start/end early/late earlier/later old/new
fast/slow faster/slower high/low higher/lower big/small long/short hot/cold warm/cold empty/full null/nonnull
parallel/serial parallel/sequential concurrent/sequential blocking/nonblocking foreground/background
online/offline stateful/stateless signed/unsigned verbose/quiet warning/error debug/release positive/negative
odd/even horizontal/vertical sender/receiver producer/consumer request/response success/error
merge/rebase pin/unpin keep/remove keep/delete keep/drop preserve/discard once/repeatedly single/multiple
relative/absolute plaintext/encrypted cached/uncached tracked/untracked nullable/nonnull sorted/unsorted
ordered/unordered wrapped/unwrapped expand/collapse show/hide grow/shrink append/prepend ahead/behind
prefix/suffix inbound/outbound ingress/egress upstream/downstream inside/outside with/without
minor/major frontend/backend master/replica primary/secondary primary/replica leader/follower
when/unless best/worst better/worse
reset/keep continue/abort resume/pause resume/suspend approve/reject use/avoid use/skip run/skip
clean/dirty cause/prevent create/destroy fill/drain persistent/transient temporary/permanent often/rarely
usually/rarely sometimes/always sometimes/never rarely/always frequently/rarely many/few most/few every/some any/none
hold/release held/released ignore/check enough/insufficient
trusted/untrusted verified/unverified authenticated/anonymous manual/automatic
manually/automatically
"""
"""Pairs of words for things that differ by more than a "not"; WordNet's come on top."""

MARKS_APART = (
    ("<at least>", "<at most>"),
    ("<more than>", "<less than>"),
    ("<can>", "<need not>"),
    ("before", "<instead>"),
)
"""Readings of phrases that say the contrary of each other."""
