//! Sessions and sign-in attempts: lookups, ends, and rate limits.

use sched_model::domain::identity::{Permission, Role, SECRET_BYTES, SessionToken};
use sched_model::domain::ids::{SessionId, UserId};
use sched_model::identity::sessions::{self, MOST, NewSession, SessionRecord, SessionRefusal};
use sched_model::identity::sign_ins::{self, SignInDecision, Subjects};
use sched_model::identity::users::{self, NewUser};
use sched_model::{Conn, DbError, transact};
use test_support::fixture::{Fixture, TENANT};
use uuid::Uuid;

const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaA";

fn token(number: u8) -> SessionToken {
    SessionToken::new(SessionId(Uuid::from_u128(number.into())), [number; SECRET_BYTES])
}

async fn member(world: &Fixture, email: &str) -> UserId {
    let new = NewUser { email, display_name: email, password_hash: Some(HASH), is_system_operator: false };
    let user = users::create(&mut world.conn().await, new).await.unwrap().id;
    let mut conn = world.conn().await;
    transact(&mut conn, "test_put_member", async |conn: &mut Conn| {
        users::put_member(conn, TENANT, email, Role::Operator).await
    })
    .await
    .unwrap();
    user
}

async fn begin(world: &Fixture, user: UserId, token: &SessionToken) -> Result<SessionRecord, DbError> {
    let hash = token.hash(None);
    let new = NewSession {
        tenant: TENANT,
        id: token.id(),
        user,
        hash: &hash,
        user_agent: Some("a browser"),
        address: Some("192.0.2.1"),
        idle_seconds: 3600.0,
        seconds: 7200.0,
    };
    sessions::create(&mut world.conn().await, new).await
}

async fn is_accepted(world: &Fixture, token: &SessionToken) -> Result<bool, SessionRefusal> {
    let found = sessions::find(&mut world.conn().await, token.id()).await.unwrap();
    found.ok_or(SessionRefusal::Wrong)?.verify(token, None).map(|may| may.has(Permission::JobsTrigger))
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_found_only_by_its_token() {
    let world = Fixture::new().await;
    let user = member(&world, "ada@example.com").await;
    let made = begin(&world, user, &token(1)).await.unwrap();
    assert_eq!((made.expires_at - made.created_at).num_seconds(), 7200);
    assert_eq!((made.idle_until - made.created_at).num_seconds(), 3600);
    assert_eq!(is_accepted(&world, &token(1)).await, Ok(true));
    assert_eq!(is_accepted(&world, &token(2)).await, Err(SessionRefusal::Wrong));
    let forged = SessionToken::new(token(1).id(), [9; SECRET_BYTES]);
    assert_eq!(is_accepted(&world, &forged).await, Err(SessionRefusal::Wrong));
    world.sql("UPDATE sessions SET idle_until = now()").await;
    assert_eq!(is_accepted(&world, &token(1)).await, Err(SessionRefusal::Over));
    assert_eq!(
        is_accepted(&world, &forged).await,
        Err(SessionRefusal::Wrong),
        "a wrong token reveals no state of the session"
    );
    assert!(sessions::list(&mut world.conn().await, TENANT, user).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn use_extends_a_session_up_to_its_maximum() {
    let world = Fixture::new().await;
    let user = member(&world, "ada@example.com").await;
    begin(&world, user, &token(1)).await.unwrap();
    let touch = async |idle| {
        sessions::touch(&mut world.conn().await, TENANT, token(1).id(), idle).await.unwrap();
        world.text("SELECT (idle_until = expires_at) || ' ' || (last_seen_at > now() - interval '1 minute') FROM sessions").await
    };
    assert_eq!(touch(1e6).await, "false true");
    let earlier =
        "UPDATE sessions SET last_seen_at = now() - interval '61 s', idle_until = now() + interval '1 s'";
    world.sql(earlier).await;
    assert_eq!(touch(1e6).await, "true true");
    world.sql("UPDATE sessions SET last_seen_at = now() - interval '61 s', idle_until = now()").await;
    assert_eq!(touch(1e6).await, "false false", "what is over stays so");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_with_the_password_the_user_and_the_membership() {
    let world = Fixture::new().await;
    let user = member(&world, "ada@example.com").await;
    let count = async || world.text("SELECT count(*)::text FROM sessions").await;
    for (number, end) in [
        "UPDATE users SET password_hash = password_hash || 'x'",
        "UPDATE users SET is_active = false",
        "DELETE FROM memberships",
    ]
    .into_iter()
    .enumerate()
    {
        world.sql("UPDATE users SET is_active = true").await;
        begin(&world, user, &token(u8::try_from(number).unwrap())).await.unwrap();
        world.sql("UPDATE users SET display_name = 'Ada', last_login_at = now()").await;
        assert_eq!(count().await, "1", "{end}");
        world.sql(end).await;
        assert_eq!(count().await, "0", "{end}");
    }
    let error = begin(&world, user, &token(9)).await.unwrap_err();
    assert_eq!(error.constraint(), Some("sessions_membership_fkey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn oldest_session_is_replaced_at_the_limit() {
    let world = Fixture::new().await;
    let (ada, bob) = (member(&world, "ada@example.com").await, member(&world, "bob@example.com").await);
    begin(&world, bob, &token(200)).await.unwrap();
    for number in 0..=u8::try_from(MOST).unwrap() {
        begin(&world, ada, &token(number)).await.unwrap();
    }
    let mut conn = world.conn().await;
    let own = sessions::list(&mut conn, TENANT, ada).await.unwrap();
    assert_eq!(own.len(), usize::try_from(MOST).unwrap());
    assert_eq!(own[0].id, token(50).id(), "newest first");
    assert!(!own.iter().any(|session| session.id == token(0).id()), "the oldest is gone");
    assert_eq!(sessions::end(&mut conn, TENANT, ada, token(200).id()).await.unwrap(), None);
    assert!(sessions::get(&mut conn, TENANT, ada, token(200).id()).await.unwrap().is_none());
    assert!(sessions::end(&mut conn, TENANT, bob, token(200).id()).await.unwrap().is_some());
}

fn subjects(account: u8, address: u8) -> Subjects {
    Subjects { account: format!("user{account}@example.com"), address: [255 - address; 32] }
}

async fn admit(world: &Fixture, account: u8, address: u8) -> SignInDecision {
    sign_ins::admit(&mut world.conn().await, &subjects(account, address)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn account_delays_double_after_the_fifth_failure() {
    let world = Fixture::new().await;
    for failures in 1..=4 {
        assert_eq!(admit(&world, 1, failures).await, SignInDecision::Now { failures: failures.into() });
    }
    for (failures, pause) in [(5, 15), (6, 30), (7, 60), (8, 120), (9, 240), (10, 480), (11, 900), (12, 900)]
    {
        // From another address each time.
        assert_eq!(admit(&world, 1, failures).await, SignInDecision::Now { failures: failures.into() });
        let SignInDecision::After { seconds } = admit(&world, 1, failures).await else {
            panic!("{failures}")
        };
        assert!((pause - 10..=pause).contains(&seconds), "{failures}: {seconds}");
        assert!(
            matches!(admit(&world, 100 + failures, failures).await, SignInDecision::Now { .. }),
            "others may"
        );
        world.sql("UPDATE sign_in_failures SET blocked_until = NULL").await;
    }
    sign_ins::reset_failures(&mut world.conn().await, &subjects(1, 1)).await.unwrap();
    assert_eq!(
        admit(&world, 1, 1).await,
        SignInDecision::Now { failures: 1 },
        "the right password is a new beginning"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn success_does_not_reset_an_address() {
    let world = Fixture::new().await;
    for account in 1..=20 {
        assert_eq!(admit(&world, account, 1).await, SignInDecision::Now { failures: 1 });
    }
    assert!(matches!(admit(&world, 21, 1).await, SignInDecision::After { .. }));
    let not_counted =
        "SELECT failures::text FROM sign_in_failures WHERE subject = sha256('account user21@example.com')";
    assert_eq!(world.text(not_counted).await, "0", "what is not let through is not counted");
    world.sql("UPDATE sign_in_failures SET blocked_until = NULL").await;
    assert!(matches!(admit(&world, 22, 1).await, SignInDecision::Now { .. }));
    sign_ins::reset_failures(&mut world.conn().await, &subjects(22, 1)).await.unwrap();
    assert!(
        matches!(admit(&world, 23, 1).await, SignInDecision::Now { .. }),
        "an admitted sign-in does not count against other accounts"
    );
    assert!(
        matches!(admit(&world, 24, 1).await, SignInDecision::After { .. }),
        "and it is counted as before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn address_failures_decay_over_time() {
    let world = Fixture::new().await;
    let count = "SELECT failures::text FROM sign_in_failures WHERE is_address";
    for account in 1..=20 {
        assert_eq!(admit(&world, account, 1).await, SignInDecision::Now { failures: 1 });
    }
    world
        .sql("UPDATE sign_in_failures SET blocked_until = NULL, last_at = last_at - interval '31 min' WHERE is_address")
        .await;
    assert!(matches!(admit(&world, 21, 1).await, SignInDecision::Now { .. }));
    assert_eq!(world.text(count).await, "19", "two of twenty are forgotten, and one has come");
    sign_ins::reset_failures(&mut world.conn().await, &subjects(21, 1)).await.unwrap();
    assert_eq!(world.text(count).await, "18");
    // Every ten minutes: the thirds add up.
    for left in ["18", "17", "16"] {
        world.sql("UPDATE sign_in_failures SET last_at = last_at - interval '10 min' WHERE is_address").await;
        admit(&world, 22, 1).await;
        sign_ins::reset_failures(&mut world.conn().await, &subjects(22, 1)).await.unwrap();
        assert_eq!(world.text(count).await, left);
    }
    for _ in 0..4 {
        admit(&world, 30, 2).await;
    }
    world.sql("UPDATE sign_in_failures SET last_at = last_at - interval '3 h'").await;
    assert_eq!(admit(&world, 30, 2).await, SignInDecision::Now { failures: 5 });
}

#[tokio::test(flavor = "multi_thread")]
async fn spellings_of_an_address_count_as_one() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let spellings = ["ida@iwi.io", "IDA@IWI.IO", "Ida@iwi.io", "\u{130}da@iwi.io", "ida@\u{130}w\u{130}.io"];
    let as_one = "SELECT lower('\u{130}') = 'i'";
    let count = if world.text(as_one).await == "t" { 5 } else { 3 };
    for (spelling, failures) in spellings.into_iter().zip(1..=count) {
        let one = Subjects { account: spelling.to_owned(), address: [u8::try_from(failures).unwrap(); 32] };
        assert_eq!(sign_ins::admit(&mut conn, &one).await.unwrap(), SignInDecision::Now { failures });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_attempts_all_count() {
    let world = Fixture::new().await;
    let (one, many) = (&subjects(1, 1), 20);
    let at_once = (0..many).map(|_| async {
        let mut conn = world.conn().await;
        transact(&mut conn, "test_admit", async |conn: &mut Conn| sign_ins::admit(conn, one).await)
            .await
            .unwrap()
    });
    let admitted = futures_util::future::join_all(at_once).await;
    let let_through =
        admitted.iter().filter(|admitted| matches!(admitted, SignInDecision::Now { .. })).count();
    assert_eq!(let_through, 5, "{admitted:?}");
    world.sql("UPDATE sign_in_failures SET last_at = now() - interval '25 h', blocked_until = NULL").await;
    assert_eq!(admit(&world, 2, 2).await, SignInDecision::Now { failures: 1 });
    assert_eq!(world.text("SELECT count(*)::text FROM sign_in_failures").await, "2", "old ones went");
}

#[tokio::test(flavor = "multi_thread")]
async fn verified_password_must_be_current() {
    let world = Fixture::new().await;
    let user = member(&world, "ada@example.com").await;
    let mut conn = world.conn().await;
    let account = sign_ins::find(&mut conn, "ADA@example.com").await.unwrap().unwrap();
    assert_eq!((account.user, account.password_hash.as_deref()), (user, Some(HASH)));
    assert_eq!(account.memberships.len(), 1);
    assert_eq!(sign_ins::find(&mut conn, "nobody@example.com").await.unwrap(), None);
    assert!(sign_ins::record_sign_in(&mut conn, user, HASH).await.unwrap());
    assert!(!sign_ins::record_sign_in(&mut conn, user, "$argon2id$other").await.unwrap());
    let other = format!("{HASH}x");
    assert!(!sign_ins::change_password(&mut conn, user, HASH, &other).await.unwrap());
    world.sql("UPDATE users SET is_active = false").await;
    assert!(!sign_ins::record_sign_in(&mut conn, user, HASH).await.unwrap());
}
