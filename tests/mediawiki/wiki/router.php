<?php
// Stands where Wikipedia's edge stands: before MediaWiki. Logs the request, refuses anonymous agents,
// and answers with the fault that a test has asked for.
$root = getenv( 'WIKI_ROOT' );
$request = [
	'method' => $_SERVER['REQUEST_METHOD'],
	'uri' => $_SERVER['REQUEST_URI'],
	'user_agent' => $_SERVER['HTTP_USER_AGENT'] ?? '',
	'accept_encoding' => $_SERVER['HTTP_ACCEPT_ENCODING'] ?? '',
	'cookie' => $_SERVER['HTTP_COOKIE'] ?? '',
];
file_put_contents( "$root/requests.jsonl", json_encode( $request ) . "\n", FILE_APPEND | LOCK_EX );

// Wikimedia's policy: an agent without an address to reach its operator is refused.
if ( !preg_match( '#https?://|[\w.+-]+@[\w-]+\.\w#', $request['user_agent'] ) ) {
	http_response_code( 403 );
	header( 'Content-Type: text/plain; charset=utf-8' );
	exit( "Please set a user-agent and respect our robot policy.\n" );
}

// LocalSettings.extra.php reads this global too: some faults are MediaWiki's own.
$fault = next_fault( "$root/fault.json" );
usleep( 1000 * ( $fault['delay_ms'] ?? 0 ) );
if ( isset( $fault['status'] ) ) {
	http_response_code( $fault['status'] );
	foreach ( $fault['headers'] ?? [] as $name => $value ) {
		header( "$name: $value" );
	}
	exit( $fault['body'] ?? '' );
}

if ( parse_url( $_SERVER['REQUEST_URI'], PHP_URL_PATH ) !== '/w/api.php' ) {
	http_response_code( 404 );
	exit( "Only /w/api.php is served.\n" );
}
chdir( getenv( 'WIKI_SOURCE' ) );
require getenv( 'WIKI_SOURCE' ) . '/api.php';

/** The fault that is set, if its `times` are not used up; the lock keeps the workers' counts apart. */
function next_fault( string $path ): array {
	if ( !is_file( $path ) ) {
		return [];
	}
	$file = fopen( $path, 'r+' );
	flock( $file, LOCK_EX );
	$fault = json_decode( stream_get_contents( $file ), true );
	$left = $fault['times'] ?? 1;
	if ( isset( $fault['times'] ) && $left > 0 ) {
		ftruncate( $file, 0 );
		rewind( $file );
		fwrite( $file, json_encode( [ 'times' => $left - 1 ] + $fault ) );
	}
	fclose( $file );
	return $left > 0 ? $fault : [];
}
