-- Each process of the API has one reader of the stream, which feeds all who follow the events of their tenants (api::events::hub): it sees the events of
-- everybody, in transactions that say so, and nothing else. Who follows is told what is theirs, and reads by themselves under the wall.
CREATE POLICY followed ON events FOR SELECT TO sched_api USING ((SELECT coalesce(current_setting('sched.follow', true), '') = 'on'));
